//! Opening the files of a store as a folder: what was typed, and what came of it.

import { client } from '../app';
import { failureOf } from '../backend/backend';
import type { Failure, FolderOpened } from '../backend/shapes';
import { emptyDraft, nameFrom, nothingTyped, validName, type Draft } from './draft';
import { places } from './places.svelte';
import { credentials, lastPart, storeUrl, wrongPlace } from './store-url';

export class AddFolder {
  draft = $state<Draft>({ ...emptyDraft(), kind: 'dav' });
  typed = $state(nothingTyped());
  readOnly = $state(false);

  busy = $state(false);
  failure = $state.raw<Failure | null>(null);
  #failedAs = $state('');
  opened = $state.raw<FolderOpened | null>(null);

  url = $derived(storeUrl(this.draft));
  /** The name that the folder gets if none is typed. */
  suggested = $derived(this.url === undefined ? '' : nameFrom(lastPart(this.url)));
  name = $derived(this.draft.name.trim() || this.suggested);
  taken = $derived(places.of(this.name) !== undefined);
  badName = $derived(this.draft.name.trim() !== '' && !validName(this.name));
  /** The store refused the typed login, and the login has not changed since. */
  wrongLogin = $derived(this.failure?.code === 'credentials' && this.#failedAs === this.#asked());
  complete = $derived(
    this.url !== undefined && validName(this.name) && !this.taken && !wrongPlace(this.draft.mountpoint),
  );

  #asked(): string {
    return JSON.stringify([this.url, credentials(this.draft, this.typed)]);
  }

  async open(): Promise<void> {
    const { url } = this;
    if (url === undefined || !this.complete || this.busy) return;
    this.busy = true;
    this.failure = null;
    const given = credentials(this.draft, this.typed);
    const at = this.draft.mountpoint.trim();
    try {
      this.opened = await client.openFolder({
        folder: url,
        name: this.name,
        ...(at !== '' && { at }),
        ...(this.readOnly && { read_only: true }),
        ...(given && { credentials: given }),
      });
      this.typed = nothingTyped();
      await places.lookAtFolders();
    } catch (error) {
      this.#failedAs = this.#asked();
      this.failure = failureOf(error);
    } finally {
      this.busy = false;
    }
  }
}
