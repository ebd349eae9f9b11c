//! The daemon through the desktop app, whose own process holds the connection: `invoke("call")` for requests, and `invoke("listen")` with a
//! channel of messages for streams.

import {
  Refused,
  type Backend,
  type Desktop,
  type Following,
  type Method,
  type NoticeKind,
  type StreamListener,
  type StreamState,
} from './backend';
import type { Failure, Progress } from './shapes';

/** What Tauri puts into the page (`withGlobalTauri`); its package would add nothing else. */
export interface TauriCore {
  invoke(command: string, args?: Record<string, unknown>): Promise<unknown>;
  Channel: new () => { onmessage: (message: never) => void };
}

type Message = { data: unknown } | { state: StreamState };

/** Tauri's functions, if this page is in its window. */
export function tauri(): TauriCore | undefined {
  return (globalThis as { __TAURI__?: { core?: TauriCore } }).__TAURI__?.core;
}

function refusal(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? new Refused(error as Failure) : error;
}

export class TauriBackend implements Backend {
  #next = 1;

  constructor(readonly core: TauriCore) {}

  async call(method: Method, path: string, body?: unknown, { onProgress, signal }: Following = {}): Promise<unknown> {
    const id = this.#next++;
    const progress = new this.core.Channel();
    progress.onmessage = (said: Progress) => onProgress?.(said);
    const end = () => void this.core.invoke('end_call', { id });
    signal?.addEventListener('abort', end);
    try {
      return await this.core.invoke('call', { id, method, path, body: body ?? null, progress });
    } catch (error) {
      if (signal?.aborted) throw new DOMException('aborted', 'AbortError');
      throw refusal(error);
    } finally {
      signal?.removeEventListener('abort', end);
    }
  }

  stream(path: string, { onData, onState }: StreamListener): () => void {
    const id = this.#next++;
    const channel = new this.core.Channel();
    let open = true;
    channel.onmessage = (message: Message) => {
      if (!open) return;
      if ('state' in message) onState(message.state);
      else onData(message.data);
    };
    void this.core.invoke('listen', { id, path, channel }).catch(() => onState('down'));
    return () => {
      open = false;
      void this.core.invoke('end_call', { id });
    };
  }

  startDaemon = async (): Promise<void> => {
    await this.#refusing('start_daemon');
  };

  openDirectory = async (path: string): Promise<void> => {
    await this.#refusing('open_directory', { path });
  };

  saveText = async (name: string, text: string): Promise<string> => {
    return (await this.#refusing('save_text', { name, text })) as string;
  };

  desktop: Desktop = {
    hear: (said) => {
      const channel = new this.core.Channel();
      channel.onmessage = said as (message: never) => void;
      void this.core.invoke('tell_page', { channel });
    },
    quit: async () => {
      await this.core.invoke('quit');
    },
    stay: async () => {
      await this.core.invoke('stay');
    },
    hold: (lost) => void this.core.invoke('hold', { lost }),
    autostart: async () => (await this.core.invoke('autostart')) === true,
    setAutostart: async (on) => {
      await this.#refusing('set_autostart', { on });
    },
    notices: async () => (await this.core.invoke('notices')) as Record<NoticeKind, boolean>,
    setNotice: async (kind, on) => {
      await this.#refusing('set_notice', { kind, on });
    },
  };

  /** A refusal of the shell looks like a refusal of the daemon. */
  async #refusing(command: string, args?: Record<string, unknown>): Promise<unknown> {
    try {
      return await this.core.invoke(command, args);
    } catch (error) {
      throw refusal(error);
    }
  }

  retry(): void {
    void this.core.invoke('retry');
  }
}
