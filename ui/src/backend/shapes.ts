//! Short names for the API's types, which `ui/generate` makes from the Rust ones.

import type { components } from './types';

type Schemas = components['schemas'];

export type Failure = Schemas['Failure'];
export type Code = Schemas['Code'];
export type Progress = Schemas['Progress'];
export type DriveStatus = Schemas['DriveStatus'];
export type ChunkMap = Schemas['ChunkMap'];
export type Pin = Schemas['Pin'];
export type Snapshot = Schemas['Snapshot'];
export type Fork = Schemas['Fork'];
export type Opened = Schemas['Opened'];
export type Created = Schemas['Created'];
export type Checked = Schemas['Checked'];
export type Collected = Schemas['Collected'];
export type Evicted = Schemas['Evicted'];
export type Limits = Schemas['Limits'];
export type SetLimits = Schemas['SetLimits'];
export type StoreTested = Schemas['StoreTested'];
export type StoreCredentials = Schemas['StoreCredentials'];
export type StoreLogin = Schemas['StoreLogin'];
export type StoreMode = Schemas['StoreMode'];
export type Diagnosis = Schemas['Diagnosis'];
export type DaemonStatus = Schemas['DaemonStatus'];
export type Create = Schemas['Create'];
export type Add = Schemas['Add'];
export type Open = Schemas['Open'];

// What follows comes from the generated types once the daemon has it.
export type Tone = 'safe' | 'busy' | 'waiting' | 'attention' | 'quiet';
export interface Done {
  done_bytes: number;
  total_bytes: number;
}
export interface CacheSplit {
  dirty_bytes: number;
  pinned_bytes: number;
  metadata_bytes: number;
  evictable_bytes: number;
}
export interface Overview {
  paused_until: string | null;
  line: string;
  tone: Tone;
  unsent_bytes: number;
  attention: number;
  drives: Card[];
}
export interface Card {
  name: string;
  state: { word: string; tone: Tone; icon: string };
  reason: string | null;
  consequence: string | null;
  action: string | null;
  mountpoint: string | null;
  local_bytes: number;
  used_bytes: number;
  size_bytes: number;
  unsent_bytes: number;
  safe_since: string | null;
  up_rate: number;
  down_rate: number;
  eta_s: number | null;
  progress: Done | null;
  actions: string[];
}
export interface FolderEntry {
  name: string;
  kind: 'folder' | 'file';
  bytes: number;
  local_bytes: number;
  state: 'online_only' | 'available' | 'always_keep' | 'partly' | null;
  pinned_by: string | null;
}
export interface Queued {
  kind: 'segment' | 'root' | 'head' | 'changes';
  bytes: number;
  tries: number;
  last_error: string | null;
  next_try_at: string | null;
}
export interface ActivityRow {
  id: number;
  at: string;
  drive: string | null;
  kind: string;
  message: string;
}
export interface DiagnosticFile {
  name: string;
  text: string;
}
