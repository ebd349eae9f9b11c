//! The daemon's messages about all drives, while the page is visible.

import type { Backend, StreamState } from '../backend/backend';
import type { Card, Overview } from '../backend/shapes';
import { beat, onBeat } from './pace';
import { kept } from './same';

const LAST = 'holdall.last';

export type Connection = 'connecting' | StreamState;

export class Live {
  overview = $state.raw<Overview | null>(null);
  connection = $state<Connection>('connecting');
  /** If the data is not current: when it was. */
  staleSince = $state<number | null>(null);
  /** How often something was drawn; the tests of the pace count this. */
  drawn = 0;
  #close: (() => void) | undefined;
  /** The overview to draw next. */
  #newest: Overview | undefined;
  #at = 0;

  constructor(
    readonly backend: Backend,
    readonly storage: Pick<Storage, 'getItem' | 'setItem'> = localStorage,
  ) {}

  start(): () => void {
    this.#recall();
    const look = () => {
      const hidden = document.visibilityState === 'hidden';
      beat.hidden = hidden;
      // Listen to nothing while hidden, so that the daemon computes nothing either.
      if (hidden) this.#leave();
      else this.#listen();
    };
    document.addEventListener('visibilitychange', look);
    addEventListener('pagehide', this.#remember);
    look();
    return () => {
      document.removeEventListener('visibilitychange', look);
      removeEventListener('pagehide', this.#remember);
      this.#leave();
      this.#newest = undefined;
    };
  }

  /** When the overview came. */
  get at(): number {
    return this.#at;
  }

  card(name: string): Card | undefined {
    return this.overview?.drives.find((card) => card.name === name);
  }

  #listen(): void {
    this.#close ??= this.backend.stream('/v1/overview', {
      onData: (data) => {
        const waits = this.#newest;
        this.#newest = data as Overview;
        if (!waits) onBeat(this.#show);
      },
      onState: (state) => {
        this.connection = state;
        if (state !== 'live') this.staleSince ??= this.#at || null;
      },
    });
  }

  #leave(): void {
    this.#close?.();
    // Data that is not shown yet will be old when somebody looks again.
    this.#close = this.#newest = undefined;
    this.#remember();
  }

  #show = (): void => {
    const overview = this.#newest;
    if (!overview) return;
    this.#newest = undefined;
    this.drawn += 1;
    this.#at = Date.now();
    // A message that came just before the connection ended is drawn after the end: it is the last known state.
    const ended = this.connection === 'down' || this.connection === 'no-session';
    this.staleSince = ended ? this.#at : null;
    const before = this.overview;
    this.overview = {
      ...overview,
      drives: kept(before?.drives ?? [], overview.drives, (card) => card.name),
      folders: kept(before?.folders ?? [], overview.folders ?? [], (folder) => folder.name),
    };
  };

  #remember = (): void => {
    if (!this.overview || this.staleSince !== null) return;
    try {
      this.storage.setItem(LAST, JSON.stringify({ at: this.#at, overview: this.overview }));
    } catch {
      // Without it the next page starts with placeholders.
    }
  };

  #recall(): void {
    try {
      const last = JSON.parse(this.storage.getItem(LAST) ?? 'null') as { at: number; overview: Overview } | null;
      if (!last || !Array.isArray(last.overview.drives)) return;
      this.overview = last.overview;
      this.staleSince = this.#at = last.at;
    } catch {
      // Data that cannot be read is not shown.
    }
  }
}
