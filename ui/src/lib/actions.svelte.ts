//! The actions on a drive that several places offer, and the questions that they raise.

import { client } from '../app';
import { Refused } from '../backend/backend';
import type { Failure, TakeOverFrom } from '../backend/shapes';
import { Doing } from './resource.svelte';
import { announcer } from './announce.svelte';
import { t } from './text';

/** The holder that a person has just seen, for the request that takes the drive from it and from no other one. */
export function seen(failure: Failure | null): TakeOverFrom | null {
  const holder = failure?.holder;
  return holder ? { device: holder.device, epoch: holder.epoch } : null;
}

/** One drive's buttons. */
export class DriveActions {
  readonly doing = new Doing();
  /** The running action, for its button. */
  what = $state<'open' | 'close' | 'pause' | 'resume' | 'upload' | null>(null);
  /** Another device has the drive: ask whether to take it over. */
  held = $state.raw<Failure | null>(null);
  /** The store's version lacks changes that this computer has seen: ask whether that version counts. */
  diverged = $state.raw<Failure | null>(null);

  constructor(readonly name: () => string) {}

  open = (
    options: {
      take_over?: boolean;
      take_over_from?: TakeOverFrom | null;
      read_only?: boolean;
      set_aside?: boolean;
    } = {},
  ) => {
    this.held = this.diverged = null;
    return this.#run('open', async () => {
      try {
        const opened = await client.open(this.name(), options);
        announcer.say(t('said.opened', { name: this.name(), path: opened.mountpoint }));
      } catch (error) {
        if (error instanceof Refused && error.code === 'held') this.held = error.failure;
        else if (error instanceof Refused && error.code === 'diverged') this.diverged = error.failure;
        else throw error;
      }
    });
  };

  close = () => this.#run('close', () => client.close(this.name()), t('said.closed', { name: this.name() }));
  pause = () => this.#run('pause', () => client.pause(this.name()), t('said.paused', { name: this.name() }));
  resume = () => this.#run('resume', () => client.resume(this.name()), t('said.resumed', { name: this.name() }));
  upload = () => this.#run('upload', () => client.uploadNow(this.name()), t('said.upload', { name: this.name() }));

  async #run(what: NonNullable<DriveActions['what']>, work: () => Promise<unknown>, said?: string): Promise<void> {
    if (this.doing.busy) return;
    this.what = what;
    await this.doing.run(async () => {
      await work();
      if (said) announcer.say(said);
    });
    this.what = null;
  }
}
