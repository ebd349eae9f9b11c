//! The parts that only the desktop app shows. A browser never loads them.

export { default as Around } from './Around.svelte';
export { default as Autostart } from './settings/Autostart.svelte';
export { default as Notifications } from './settings/Notifications.svelte';
