//! The actions on a drive or a folder that several screens offer, and the questions that they raise.

import { client } from '../app';
import { Refused, failureOf } from '../backend/backend';
import type { Failure, TakeOverFrom } from '../backend/shapes';
import { Doing } from './resource.svelte';
import { announcer } from './announce.svelte';
import type { Act, Place } from './places';
import { places } from './places.svelte';
import { t } from './text';

/** The holder that a person has just seen, for the request that takes the drive from it and from no other one. */
export function seen(failure: Failure | null): TakeOverFrom | null {
  const holder = failure?.holder;
  return holder ? { device: holder.device, epoch: holder.epoch } : null;
}

/** How to open a drive. */
interface OpenHow {
  take_over?: boolean;
  take_over_from?: TakeOverFrom | null;
  read_only?: boolean;
  set_aside?: boolean;
}

/** The buttons of one drive or folder. */
export class PlaceActions {
  readonly doing = new Doing();
  /** The running action, for its button. */
  what = $state<Act | null>(null);
  /** Closing leaves changes only here: ask first. */
  closing = $state(false);
  /** Another device has the drive: ask whether to take it over. */
  held = $state.raw<Failure | null>(null);
  /** The store's version lacks changes that this computer has seen: ask whether that version counts. */
  diverged = $state.raw<Failure | null>(null);

  constructor(readonly place: () => Pick<Place, 'kind' | 'name'>) {}

  get name(): string {
    return this.place().name;
  }

  get #isFolder(): boolean {
    return this.place().kind === 'folder';
  }

  open = (options: OpenHow = {}) => {
    this.held = this.diverged = null;
    return this.#run('open', async () => {
      try {
        const { mountpoint } = this.#isFolder
          ? await client.openFolder({ folder: this.name })
          : await client.open(this.name, options);
        announcer.say(t('said.opened', { name: this.name, path: mountpoint ?? '' }));
      } catch (error) {
        if (error instanceof Refused && error.code === 'held') this.held = error.failure;
        else if (error instanceof Refused && error.code === 'diverged') this.diverged = error.failure;
        else throw error;
      }
    });
  };

  /** Closes it, after a question if changes are only here. A read-only drive has to be closed before its changes can be uploaded. */
  askToClose = (place: Place) => {
    if (this.doing.busy) return;
    if (place.unsentBytes > 0 && place.state.icon !== 'lock') this.closing = true;
    else void this.close();
  };

  close = () =>
    this.#run(
      'close',
      () => (this.#isFolder ? client.closeFolder(this.name) : client.close(this.name)),
      t('said.closed', { name: this.name }),
    );
  pause = () =>
    this.#run(
      'pause',
      () => (this.#isFolder ? client.pauseFolder(this.name) : client.pause(this.name)),
      t('said.paused', { name: this.name }),
    );
  resume = () =>
    this.#run(
      'resume',
      () => (this.#isFolder ? client.resumeFolder(this.name) : client.resume(this.name)),
      t('said.resumed', { name: this.name }),
    );
  upload = () => {
    const said = t('said.upload', { name: this.name });
    if (!this.#isFolder) return this.#run('upload_now', () => client.uploadNow(this.name), said);
    announcer.say(said);
    return this.#sync();
  };

  #syncing = false;

  /** A folder's answer comes once everything is uploaded. Until then, its other buttons work. */
  async #sync(): Promise<void> {
    if (this.#syncing) return;
    this.#syncing = true;
    try {
      await client.syncFolder(this.name);
    } catch (error) {
      this.doing.failure = failureOf(error);
    } finally {
      this.#syncing = false;
    }
  }

  async #run(what: Act, work: () => Promise<unknown>, said?: string): Promise<void> {
    if (this.doing.busy) return;
    this.what = what;
    await this.doing.run(async () => {
      await work();
      if (said) announcer.say(said);
      // The overview comes a moment later; a person who has pressed something sees it at once.
      if (this.#isFolder) await places.lookAtFolders();
    });
    this.what = null;
  }
}
