//! Short names for the API's types, which `ui/generate` makes from the Rust ones.

import type { components } from './types';

type Schemas = components['schemas'];

export type Failure = Schemas['Failure'];
export type Step = Schemas['Step'];
export type Screen = Schemas['Screen'];
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
export type QuietHours = Schemas['QuietHours'];
export type SetLimits = Schemas['SetLimits'];
export type StoreTested = Schemas['StoreTested'];
export type StoreDrive = Schemas['StoreDrive'];
export type Secrets = Schemas['Secrets'];
export type StoreCredentials = Schemas['StoreCredentials'];
export type Version = Schemas['Version'];
export type StoreLogin = Schemas['StoreLogin'];
export type StoreMode = Schemas['StoreMode'];
export type Diagnosis = Schemas['Diagnosis'];
export type Finding = Schemas['Finding'];
export type DaemonStatus = Schemas['DaemonStatus'];
export type Create = Schemas['Create'];
export type Add = Schemas['Add'];
export type Open = Schemas['Open'];
export type Overview = Schemas['Overview'];
export type Card = Schemas['Card'];
export type Tone = Schemas['Tone'];
export type FolderEntry = Schemas['FolderEntry'];
export type RecoveryKey = Schemas['RecoveryKey'];
export type Queued = Schemas['Queued'];
export type ActivityRow = Schemas['ActivityRow'];
export type ActivityKind = Schemas['ActivityKind'];
export type Diagnostics = Schemas['Diagnostics'];
export type DiagnosticFile = Schemas['DiagnosticFile'];
