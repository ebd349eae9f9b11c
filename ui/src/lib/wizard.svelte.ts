//! The wizard's state: what was typed, what the store answered, and the progress of making the drive.

import { backend, client, live } from '../app';
import { Refused, failureOf } from '../backend/backend';
import type {
  Created,
  Failure,
  Opened,
  Progress,
  Secrets,
  StoreDrive,
  StoreLogin,
  StoreTested,
  TakeOverFrom,
} from '../backend/shapes';
import { forget, load, nameFrom, nothingTyped, save, shortPassphrase, validName, type Draft } from './draft';
import { parseBytes } from './format';
import { seen } from './actions.svelte';
import { credentials, sameLogin, storeUrl, wrongPlace } from './store-url';
import { t } from './text';

export const STEPS = ['kind', 'store', 'drive', 'protection', 'place', 'summary'] as const;
export type Step = (typeof STEPS)[number];
/** The stages at the end, in order. */
export type Stage = 'create' | 'recovery' | 'limit' | 'open' | 'done';

/** How to open a drive that another computer has open. */
interface How {
  read_only?: boolean;
  take_over?: boolean;
  take_over_from?: TakeOverFrom | null;
}

/** The daemon's limit: an ext4 with a journal needs about this. */
const SIZE_MIN = 16 * 1024 * 1024;

/** The wizard whose drive is being made, until its recovery key is written down: a person who leaves finds it again. */
let unfinished: Wizard | null = null;

// The key is shown only once. Nothing survives the page.
addEventListener('beforeunload', (event) => {
  if (unfinished?.tells) event.preventDefault();
});

export class Wizard {
  draft = $state<Draft>(load(localStorage));
  typed = $state(nothingTyped());
  /** Input of an earlier visit is back. */
  resumed = $state(false);
  logins = $state.raw<StoreLogin[]>([]);

  tested = $state.raw<StoreTested | null>(null);
  #testedAs = $state('');
  testing = $state(false);
  testProgress = $state.raw<Progress | null>(null);
  testFailure = $state.raw<Failure | null>(null);
  #failedAs = $state('');

  /** The drives in the store, once their secrets were typed. */
  #found = $state.raw<StoreDrive[] | null>(null);
  #foundAs = $state('');
  /** The UUID of the chosen drive. */
  chosen = $state('');
  finding = $state(false);
  findFailure = $state.raw<Failure | null>(null);

  stage = $state<Stage | null>(null);
  /** The stage that failed, and why. */
  failed = $state.raw<{ stage: Stage; failure: Failure } | null>(null);
  progress = $state.raw<Progress | null>(null);
  created = $state.raw<Created | null>(null);
  opened = $state.raw<Opened | null>(null);

  url = $derived(storeUrl(this.draft));
  login = $derived(
    this.url === undefined ? undefined : this.logins.find((one) => sameLogin(one.store, this.url ?? '')),
  );
  /** The store refused the typed login, and the login has not changed since. */
  wrongLogin = $derived(this.testFailure?.code === 'credentials' && this.#failedAs === this.#asked());
  /** The passphrase or the recovery key is wrong, and has not changed since. */
  wrongKey = $derived(
    (this.findFailure?.code === 'passphrase_wrong' || this.findFailure?.code === 'passphrase_needed') &&
      this.#foundAs === this.#unlockedBy(),
  );
  /** The store's test result for what is typed now. */
  verdict = $derived(this.tested && this.#testedAs === this.#asked() ? this.tested : null);
  /** The place for the drive: its own directory if the place has other files, unless the person decided otherwise. */
  target = $derived((!this.draft.existing && !this.draft.beside ? this.verdict?.instead : undefined) ?? this.url);
  /** The drives in the store, for what is typed now. */
  drives = $derived(this.#found && this.#foundAs === this.#unlockedBy() ? this.#found : null);
  step = $derived<Step>(STEPS[this.draft.step] ?? 'kind');
  sizeBytes = $derived(parseBytes(this.draft.size));
  taken = $derived(live.overview?.drives.some((card) => card.name === this.draft.name.trim()) ?? false);

  large = $derived((this.sizeBytes ?? 0) >= SIZE_MIN);
  named = $derived(validName(this.draft.name.trim()) && !this.taken);

  /** Whether a recovery key is about to be shown, or is shown and not written down yet. */
  tells = $derived(
    this.stage === 'recovery' ||
      (this.stage === 'create' && !this.failed && !this.draft.existing && this.draft.encrypt),
  );

  /** The unfinished wizard, or a new one. */
  static current(): Wizard {
    if (unfinished) return unfinished;
    const made: Wizard[] = [];
    // It may outlive its screen, and so must its derived values.
    $effect.root(() => {
      const wizard = new Wizard();
      made.push(wizard);
      $effect(() =>
        backend.desktop?.hold(wizard.tells ? t('quit.recovery', { name: wizard.draft.name.trim() }) : null),
      );
    });
    return made[0] as Wizard;
  }

  constructor() {
    // Neither secrets nor the test result were kept, so go back to where they are typed and tested.
    this.resumed = this.draft.kind !== '';
    this.draft.step = Math.min(this.draft.step, 1);
    void client.logins().then(
      (logins) => (this.logins = logins),
      () => undefined,
    );
  }

  keep(): void {
    if (this.stage === null && this.created === null) save(localStorage, this.draft);
  }

  startAnew(): void {
    forget(localStorage);
    location.reload();
  }

  #asked(): string {
    return JSON.stringify([this.url, credentials(this.draft, this.typed) ?? null]);
  }

  /** Whether this step has all it needs. */
  complete(step: Step): boolean {
    const { draft, typed } = this;
    switch (step) {
      case 'kind':
        return draft.kind !== '';
      case 'store':
        return this.verdict !== null && this.verdict.usable && (this.verdict.store_mode !== 'none' || draft.acceptWeak);
      case 'drive':
        return draft.existing || (!this.verdict?.has_drive && this.named && this.large);
      case 'protection':
        if (draft.existing) return this.drives !== null && this.chosen !== '' && this.named;
        return !draft.encrypt || (!shortPassphrase(typed.passphrase) && typed.passphrase === typed.again);
      case 'place':
        return !wrongPlace(draft.mountpoint) && (draft.cache.trim() === '' || (parseBytes(draft.cache) ?? 0) > 0);
      case 'summary':
        return STEPS.slice(0, -1).every((earlier) => this.complete(earlier));
    }
  }

  async test(): Promise<void> {
    const { url } = this;
    if (url === undefined || this.testing) return;
    const asked = this.#asked();
    this.testing = true;
    this.testFailure = null;
    this.testProgress = null;
    this.tested = null;
    try {
      const onProgress = (said: Progress) => (this.testProgress = said);
      this.tested = await client.testStore(url, credentials(this.draft, this.typed), { onProgress });
      this.#testedAs = asked;
      // Most people who choose a store with a drive want that drive; without one there is nothing to unlock.
      this.draft.existing = this.tested.has_drive;
      this.draft.beside = false;
    } catch (error) {
      this.#failedAs = asked;
      this.testFailure = failureOf(error);
    } finally {
      this.testing = false;
    }
  }

  #secrets(): Secrets {
    const { typed } = this;
    if (this.draft.unlockBy === 'recovery') return typed.recovery.trim() ? { recovery_key: typed.recovery.trim() } : {};
    return typed.passphrase ? { passphrase: typed.passphrase } : {};
  }

  #unlockedBy(): string {
    return JSON.stringify([this.#asked(), this.#secrets()]);
  }

  /** Finds the drives in the store. If only one can be added, it is chosen. */
  async find(): Promise<void> {
    const { url } = this;
    if (url === undefined || this.finding) return;
    const as = this.#unlockedBy();
    this.finding = true;
    this.findFailure = null;
    this.#found = null;
    this.chosen = '';
    try {
      const found = await client.findDrives(url, credentials(this.draft, this.typed), this.#secrets());
      this.#found = found;
      this.#foundAs = as;
      const [first, ...more] = found.filter((one) => !one.known_as && !one.is_fork);
      if (first && more.length === 0) this.choose(first.uuid);
    } catch (error) {
      this.#foundAs = as;
      this.findFailure = failureOf(error);
    } finally {
      this.finding = false;
    }
  }

  /** Chooses this drive, under its own name if possible. */
  choose(uuid: string): void {
    this.chosen = uuid;
    this.draft.name = nameFrom(this.drives?.find((one) => one.uuid === uuid)?.name ?? '');
  }

  /** Makes the drive, or makes it known here. Then mounts it, unless there is a recovery key to be written down first. */
  async make(): Promise<void> {
    const { draft, typed, url, target } = this;
    if (url === undefined || target === undefined) return;
    const name = draft.name.trim();
    const given = credentials(draft, typed);
    const onProgress = (said: Progress) => (this.progress = said);
    // eslint-disable-next-line @typescript-eslint/no-this-alias
    unfinished = this;
    const made = await this.#at('create', () => {
      if (draft.existing) {
        return client.add(
          { name, store: url, drive: this.chosen, secrets: this.#secrets(), ...(given && { credentials: given }) },
          { onProgress },
        );
      }
      return client.create(
        {
          name,
          store: target,
          size_bytes: this.sizeBytes ?? 0,
          encrypt: draft.encrypt,
          secrets: draft.encrypt ? { passphrase: typed.passphrase } : {},
          weakest: draft.acceptWeak ? 'none' : 'claim',
          in_synced_folder: false,
          beside_others: draft.beside,
          ...(given && { credentials: given }),
        },
        { onProgress },
      );
    });
    if (!made) {
      unfinished = null;
      return;
    }
    this.created = made;
    this.typed = nothingTyped();
    forget(localStorage);
    if (made.recovery_key) this.stage = 'recovery';
    else await this.mount();
  }

  async mount(how: How = {}): Promise<void> {
    const { draft } = this;
    unfinished = null;
    const cache = parseBytes(draft.cache);
    const drive = draft.name.trim();
    if (cache && !(await this.#at('limit', () => client.setLimits({ drive, cache_bytes: cache })))) return;
    const at = draft.mountpoint.trim();
    const opened = await this.#at('open', () => client.open(draft.name.trim(), at === '' ? how : { at, ...how }));
    if (!opened) return;
    this.opened = opened;
    this.stage = 'done';
  }

  /** The holder, if the drive could not be opened because another computer has it open. */
  held = $derived(this.failed?.stage === 'open' && this.failed.failure.code === 'held' ? this.failed.failure : null);

  /** Takes the drive over from the computer that was shown as the holder, and from no other. */
  takeOver(): Promise<void> {
    return this.mount({ take_over: true, take_over_from: seen(this.held) });
  }

  /** Tries again what failed. */
  again(): Promise<void> {
    return this.failed?.stage === 'create' ? this.make() : this.mount();
  }

  /** Goes back to the steps, to change what was wrong. */
  change(): void {
    const { draft } = this;
    const failure = this.failed?.failure ?? null;
    const code = failure?.code;
    this.stage = null;
    this.failed = null;
    const others = failure?.actions?.some((action) => action.do === 'use_subdirectory');
    const at: Step = others
      ? 'store'
      : code === 'passphrase_needed' || code === 'passphrase_wrong'
        ? 'protection'
        : code === 'exists' || code === 'not_found'
          ? draft.existing
            ? 'protection'
            : 'drive'
          : code === 'credentials' || code === 'offline'
            ? 'store'
            : 'summary';
    draft.step = STEPS.indexOf(at);
    // Show the failure where it is corrected.
    if (at === 'store') {
      this.#failedAs = this.#asked();
      this.testFailure = failure;
      this.tested = null;
    } else if (at === 'protection' && draft.existing) {
      this.#foundAs = this.#unlockedBy();
      this.#found = null;
      this.findFailure = failure;
    }
  }

  async #at<T>(stage: Stage, work: () => Promise<T>): Promise<T | undefined> {
    this.stage = stage;
    this.failed = null;
    this.progress = null;
    try {
      return await work();
    } catch (error) {
      this.failed = { stage, failure: error instanceof Refused ? error.failure : failureOf(error) };
      return undefined;
    }
  }
}
