//! How the pages reach the daemon: one interface, and an implementation for each way there.
//!
//! A backend knows neither requests nor shapes; `client.ts` does. It ends every failure as a [`Refused`], so that a screen
//! has one thing to show: the cause, what it means for the data, and what to do.

import type { Code, Failure, Progress } from './shapes';

export type Method = 'GET' | 'POST' | 'DELETE';

/** What goes with a request that may take long. */
export interface Following {
  /** Called with how far it is. */
  onProgress?: (progress: Progress) => void;
  /** Ends the wait. What would be left half done goes on to its end in the daemon. */
  signal?: AbortSignal;
}

/** How a stream is. */
export type StreamState = 'live' | 'down' | 'no-session';

export interface StreamListener {
  onData: (data: unknown) => void;
  /** Said whenever it changes; a stream that is down is tried again until it is closed. */
  onState: (state: StreamState) => void;
}

/** The question before the app is quit. */
export interface Leaving {
  message: string;
  stay: string;
  leave: string;
}

/** What the app around the page says. */
export type FromDesktop =
  | { go: string }
  | { quit: Leaving }
  | { close: { name: string; title: string; text: string } }
  | { failed: { title: string; failure: Failure } };

/** What the desktop is asked to tell of. */
export const NOTICES = ['attention', 'conflict', 'pin_complete', 'network'] as const;
export type NoticeKind = (typeof NOTICES)[number];

/** The app around the page: a window, and an icon in the tray. */
export interface Desktop {
  /** Hears what it says, from now on. */
  hear(said: (message: FromDesktop) => void): void;
  quit(): Promise<void>;
  /** It is not to quit after all. */
  stay(): Promise<void>;
  /** Has it ask before it quits, with a sentence on what this page would lose; `null` where that is nothing any more. */
  hold(lost: string | null): void;
  /** Whether it starts when a person logs in. */
  autostart(): Promise<boolean>;
  setAutostart(on: boolean): Promise<void>;
  /** Which notifications it shows. */
  notices(): Promise<Record<NoticeKind, boolean>>;
  setNotice(kind: NoticeKind, on: boolean): Promise<void>;
}

export interface Backend {
  /** Asks one thing, and gives the document or the result. Rejects with [`Refused`]. */
  call(method: Method, path: string, body?: unknown, following?: Following): Promise<unknown>;
  /** Listens until the returned function is called. */
  stream(path: string, listener: StreamListener): () => void;
  /** Starts the daemon where that can be done from here. */
  startDaemon?: () => Promise<void>;
  /** Shows a folder in the file manager, where that can be done from here. */
  openFolder?: (path: string) => Promise<void>;
  /** Saves a text, where that is not the browser's own business; gives the file. */
  saveText?: (name: string, text: string) => Promise<string>;
  /** The app around the page, where there is one. */
  desktop?: Desktop;
  /** Tries a stream that is down at once. */
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

/** What any error is to a person: the daemon's own words, or what can be said without it. */
export function failureOf(error: unknown): Failure {
  if (error instanceof Refused) return error.failure;
  const message = error instanceof Error ? error.message : String(error);
  return { code: 'failed', message, consequence: '', action: '' };
}

/** Whether somebody ended the wait. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}
