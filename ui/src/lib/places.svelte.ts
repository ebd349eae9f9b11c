//! All drives and folders, as the page knows them now.

import { client, live } from '../app';
import { clock } from './clock.svelte';
import { needsOf, placesOf, unsentOf, type Place } from './places';
import { Resource } from './resource.svelte';
import { kept } from './same';

/** The overview says what matters at once; forks of drives change rarely. */
const DRIVES_EVERY_MS = 3000;

class Places {
  readonly drives = new Resource(client.drives);
  /** Folders as the overview has them, and asked for where a person waits for the effect of an action. */
  readonly #asked = new Resource(client.folders);
  #folders = $derived(
    this.#asked.data && (this.#asked.at ?? 0) > (live.overview ? live.at : 0)
      ? this.#asked.data
      : (live.overview?.folders ?? this.#asked.data),
  );

  cards = $derived(live.overview?.drives ?? []);
  forks = $derived(new Map((this.drives.data ?? []).map((drive) => [drive.name, drive.forks.length])));
  #before: Place[] = [];
  /** A place that did not change stays the same object, so that its row is not drawn again. */
  all = $derived<Place[]>(
    (this.#before = kept(this.#before, placesOf(this.cards, this.#folders ?? [], this.forks), ({ name }) => name)),
  );
  needs = $derived(needsOf(this.cards, this.drives.data ?? [], this.#folders ?? []));
  unsent = $derived(unsentOf(this.all, { paused_until: live.overview?.paused_until ?? null }, new Date(clock.now)));

  start(): () => void {
    return this.drives.every(DRIVES_EVERY_MS);
  }

  /** Asks for both lists now: a place that is not in them does not exist. */
  async look(): Promise<void> {
    await Promise.all([this.drives.refresh(), this.lookAtFolders()]);
  }

  /** Asks for the folders now: a person waits for the effect of an action. */
  lookAtFolders = (): Promise<void> => this.#asked.refresh();

  of(name: string): Place | undefined {
    return this.all.find((place) => place.name === name);
  }

  folder(name: string) {
    return this.#folders?.find((folder) => folder.name === name);
  }
}

export const places = new Places();
