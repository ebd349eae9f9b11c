//! All drives and folders, as the page knows them now.

import { client, live } from '../app';
import { clock } from './clock.svelte';
import { needsOf, placesOf, unsentOf, type Place } from './places';
import { Resource } from './resource.svelte';
import { kept } from './same';

/** The overview says what matters about drives at once; forks of drives change rarely. */
const DRIVES_EVERY_MS = 3000;
const FOLDERS_EVERY_MS = 1000;

class Places {
  readonly drives = new Resource(client.drives);
  readonly folders = new Resource(client.folders);

  cards = $derived(live.overview?.drives ?? []);
  forks = $derived(new Map((this.drives.data ?? []).map((drive) => [drive.name, drive.forks.length])));
  #before: Place[] = [];
  /** A place that did not change stays the same object, so that its row is not drawn again. */
  all = $derived<Place[]>(
    (this.#before = kept(this.#before, placesOf(this.cards, this.folders.data ?? [], this.forks), ({ name }) => name)),
  );
  needs = $derived(needsOf(this.cards, this.drives.data ?? [], this.folders.data ?? []));
  unsent = $derived(unsentOf(this.all, { paused_until: live.overview?.paused_until ?? null }, new Date(clock.now)));

  start(): () => void {
    const stops = [this.drives.every(DRIVES_EVERY_MS), this.folders.every(FOLDERS_EVERY_MS)];
    return () => stops.forEach((stop) => stop());
  }

  /** Asks for both lists now: a place that is not in them does not exist. */
  async look(): Promise<void> {
    await Promise.all([this.drives.refresh(), this.folders.refresh()]);
  }

  of(name: string): Place | undefined {
    return this.all.find((place) => place.name === name);
  }

  folder(name: string) {
    return this.folders.data?.find((folder) => folder.name === name);
  }
}

export const places = new Places();
