//! This page's one connection to the daemon, and what it has received.

import type { Backend } from './backend/backend';
import { Client } from './backend/client';
import { HttpBackend } from './backend/http';
import { TauriBackend, tauri } from './backend/tauri';
import { Live } from './lib/live.svelte';

const core = tauri();

export const backend: Backend = core ? new TauriBackend(core) : new HttpBackend();
export const client = new Client(backend);
export const live = new Live(backend);
