//! Every screen but the first, which is shown without waiting for them.

export { default as Activity } from './Activity.svelte';
export { default as AddDrive } from './AddDrive.svelte';
export { default as Drive } from './Drive.svelte';
export { default as Forks } from './Forks.svelte';
export { default as Help } from './Help.svelte';
export { default as Keep } from './Keep.svelte';
export { default as Settings } from './Settings.svelte';
