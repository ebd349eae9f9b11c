//! Every screen but the first, which is shown without waiting for them.

export { default as Activity } from './Activity.svelte';
export { default as Add } from './Add.svelte';
export { default as AddDrive } from './AddDrive.svelte';
export { default as AddFolder } from './AddFolder.svelte';
export { default as Help } from './Help.svelte';
export { default as PlacePage } from './PlacePage.svelte';
export { default as Settings } from './Settings.svelte';
