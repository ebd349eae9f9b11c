//! Requested data, and its state: never requested, on its way, here, here but old, refused.

import { failureOf, isAbort } from '../backend/backend';
import type { Failure } from '../backend/shapes';
import { nextBeat } from './pace';

export class Resource<T> {
  data = $state.raw<T | null>(null);
  failure = $state.raw<Failure | null>(null);
  at = $state<number | null>(null);
  #asked = 0;

  constructor(readonly ask: () => Promise<T>) {}

  /** Requests it again. An answer that a later request has overtaken is dropped. */
  refresh = async (): Promise<void> => {
    const asked = ++this.#asked;
    try {
      const data = await this.ask();
      await nextBeat();
      if (asked !== this.#asked) return;
      if (JSON.stringify(data) !== JSON.stringify(this.data)) this.data = data;
      this.failure = null;
      this.at = Date.now();
    } catch (error) {
      if (asked === this.#asked && !isAbort(error)) this.failure = failureOf(error);
    }
  };

  /** Requests it now and at intervals, one request at a time, while somebody can see the answers. */
  every(ms: number): () => void {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let stopped = false;
    let busy = false;
    const turn = async () => {
      clearTimeout(timer);
      if (stopped || busy || document.visibilityState === 'hidden') return;
      busy = true;
      await this.refresh();
      busy = false;
      if (!stopped) timer = setTimeout(() => void turn(), ms);
    };
    const look = () => void turn();
    document.addEventListener('visibilitychange', look);
    void turn();
    return () => {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', look);
    };
  }
}

/** Something that a person has started. */
export class Doing {
  busy = $state(false);
  failure = $state.raw<Failure | null>(null);

  /** Does it, and returns the result; `undefined` if it failed. The failure is then shown. */
  run = async <T>(work: () => Promise<T>): Promise<T | undefined> => {
    if (this.busy) return undefined;
    this.busy = true;
    this.failure = null;
    try {
      return await work();
    } catch (error) {
      if (!isAbort(error)) this.failure = failureOf(error);
      return undefined;
    } finally {
      this.busy = false;
    }
  };
}
