//! How the pages reach the daemon: one interface, and an implementation for each way.
//!
//! A backend knows neither requests nor shapes; `client.ts` does. It turns every failure into a [`Refused`], so that a screen has one thing
//! to show: the cause, what it means for the data, and what to do.

import type { Code, Failure, Progress } from './shapes';

export type Method = 'GET' | 'POST' | 'DELETE';

/** Options for a request that may take long. */
export interface Following {
  /** Called with the progress. */
  onProgress?: (progress: Progress) => void;
  /** Ends the wait. The daemon still finishes work that would be left half done. */
  signal?: AbortSignal;
}

/** The state of a stream. */
export type StreamState = 'live' | 'down' | 'no-session';

export interface StreamListener {
  onData: (data: unknown) => void;
  /** Called whenever the state changes. A stream that is down is tried again until it is closed. */
  onState: (state: StreamState) => void;
}

/** The question before quitting the app. */
export interface Leaving {
  message: string;
  stay: string;
  leave: string;
}

/** A message of the app around the page. */
export type FromDesktop =
  | { go: string }
  | { quit: Leaving }
  | { close: { name: string; title: string; text: string } }
  | { failed: { title: string; failure: Failure } };

/** The kinds of desktop notifications. */
export const NOTICES = ['attention', 'conflict', 'pin_complete', 'network'] as const;
export type NoticeKind = (typeof NOTICES)[number];

/** The app around the page: a window, and an icon in the tray. */
export interface Desktop {
  /** Listens to its messages from now on. */
  hear(said: (message: FromDesktop) => void): void;
  quit(): Promise<void>;
  /** Says that it should not quit after all. */
  stay(): Promise<void>;
  /** Makes it ask before it quits, with a sentence on what this page would lose; `null` if there is nothing to lose any longer. */
  hold(lost: string | null): void;
  /** Whether it starts when a person logs in. */
  autostart(): Promise<boolean>;
  setAutostart(on: boolean): Promise<void>;
  /** Which notifications it shows. */
  notices(): Promise<Record<NoticeKind, boolean>>;
  setNotice(kind: NoticeKind, on: boolean): Promise<void>;
}

export interface Backend {
  /** Sends one request, and returns the document or the result. Rejects with [`Refused`]. */
  call(method: Method, path: string, body?: unknown, following?: Following): Promise<unknown>;
  /** Listens until the returned function is called. */
  stream(path: string, listener: StreamListener): () => void;
  /** Starts the daemon, if that is possible from here. */
  startDaemon?: () => Promise<void>;
  /** Shows a directory in the file manager, if that is possible from here. */
  openDirectory?: (path: string) => Promise<void>;
  /** Saves a text, if the browser does not do that itself; returns the file. */
  saveText?: (name: string, text: string) => Promise<string>;
  /** The app around the page, if there is one. */
  desktop?: Desktop;
  /** Tries a stream that is down again at once. */
  retry(): void;
}

/** A request that failed. */
export class Refused extends Error {
  constructor(readonly failure: Failure) {
    super(failure.message);
    this.name = 'Refused';
  }

  get code(): Code | 'no_session' {
    return this.failure.code;
  }
}

/** Any error as a failure for people: in the daemon's words, or in what can be said without it. */
export function failureOf(error: unknown): Failure {
  if (error instanceof Refused) return error.failure;
  const message = error instanceof Error ? error.message : String(error);
  return { code: 'failed', message, consequence: '', action: '' };
}

/** Whether the wait was ended on purpose. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}
