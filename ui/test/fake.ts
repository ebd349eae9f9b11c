//! A backend that answers as a test says, and remembers what it was asked.

import { Refused, type Backend, type Following, type Method, type StreamListener } from '../src/backend/backend';
import type { Card, Code, DriveStatus, Failure, FolderStatus, Overview } from '../src/backend/shapes';

type Answer = (body: unknown, following: Following) => unknown;

export class FakeBackend implements Backend {
  asked: { what: string; body: unknown }[] = [];
  streams = new Set<StreamListener>();
  retried = 0;

  /** Answers by `POST /v1/drives`. */
  constructor(readonly answers: Record<string, Answer> = {}) {}

  async call(method: Method, path: string, body?: unknown, following: Following = {}): Promise<unknown> {
    const what = `${method} ${path}`;
    this.asked.push({ what, body });
    const answer = this.answers[what];
    if (!answer) throw refused('not_found', what);
    return answer(body, following);
  }

  stream(_path: string, listener: StreamListener): () => void {
    this.streams.add(listener);
    return () => this.streams.delete(listener);
  }

  tell(data: unknown): void {
    for (const listener of this.streams) listener.onData(data);
  }

  retry(): void {
    this.retried += 1;
  }
}

export function refused(code: Code, message = 'It went wrong.'): Refused {
  const failure: Failure = { code, message, consequence: 'Nothing was changed.', action: 'Try again.' };
  return new Refused(failure);
}

export function card(name: string, unsent = 0): Card {
  return {
    name,
    kind: 'S3',
    state: { word: 'Ready', tone: unsent > 0 ? 'waiting' : 'safe', icon: 'check' },
    reason: null,
    consequence: null,
    steps: [],
    mountpoint: null,
    local_bytes: 0,
    used_bytes: 0,
    size_bytes: 0,
    unsent_bytes: unsent,
    unsent_is_known: true,
    safe_since: null,
    up_rate: 0,
    down_rate: 0,
    eta_s: null,
    progress: null,
    prefetch_bytes: 0,
    actions: [],
  };
}

export const overview = (...drives: Card[]) =>
  ({
    line: 'A line',
    tone: 'safe',
    unsent_bytes: 0,
    unsent_is_known: true,
    attention: 0,
    paused_until: null,
    drives,
    folders: [],
  }) as unknown as Overview;

export function folder(name: string, changes: Partial<FolderStatus> = {}): FolderStatus {
  return {
    ...{ name, uuid: 'u', url: 'https://cloud.example.org/files/me', kind: 'dav', state: 'Ready', reason: null },
    ...{ advice: null, since: '2026-11-20T10:00:00Z', paused: false, needs_login: false, draining: false },
    ...{ unsent: false, mountpoint: `/home/me/Holdall/${name}`, read_only: false },
    ...{ passthrough: { on: true, why: null }, known_files: 10, cached_bytes: 0, dirty_bytes: 0 },
    ...{ queue: { waiting: 0, uploading: 0, failed: 0, in_use: 0 }, conflicts: 0, held_deletions: 0 },
    ...{ pinned_bytes: 0, requests: { get: 0, put: 0, head: 0, list: 0, delete: 0 } },
    ...{ sent_bytes: 0, received_bytes: 0, last_uploaded_at: null, daemon_pid: 1 },
    ...changes,
  };
}

export const forked = (name: string, ...devices: string[]) =>
  ({
    ...{ name, store: 's3://bucket', needs_login: false },
    forks: devices.map((device, index) => ({ uuid: String(index), taken_by: device })),
  }) as unknown as DriveStatus;
