//! The daemon's requests by name. Screens send requests only through this.

import { paced } from '../lib/pace';
import type { Backend, Following } from './backend';
import type * as api from './shapes';

const drive = (name: string, rest = '') => `/v1/drives/${encodeURIComponent(name)}${rest}`;
const fork = (name: string, of: string, rest = '') => drive(name, `/forks/${encodeURIComponent(of)}${rest}`);
const folder = (name: string, rest = '') => `/v1/folders/${encodeURIComponent(name)}${rest}`;

export class Client {
  constructor(readonly backend: Backend) {}

  get = <T>(path: string) => this.backend.call('GET', path) as Promise<T>;
  post = <T>(path: string, body?: unknown, following?: Following) =>
    this.backend.call(
      'POST',
      path,
      body,
      following?.onProgress ? { ...following, onProgress: paced(following.onProgress) } : following,
    ) as Promise<T>;
  delete = <T>(path: string) => this.backend.call('DELETE', path) as Promise<T>;

  daemon = () => this.get<api.DaemonStatus>('/v1/daemon');
  drives = () => this.get<api.DriveStatus[]>('/v1/drives');
  status = (name: string) => this.get<api.DriveStatus>(drive(name));
  create = (create: api.Create, following?: Following) => this.post<api.Created>('/v1/drives', create, following);
  add = (add: api.Add, following?: Following) => this.post<api.Created>('/v1/drives/add', add, following);
  open = (name: string, open: Partial<api.Open> = {}) => this.post<api.Opened>(drive(name, '/open'), open);
  close = (name: string, wait = false, following?: Following) =>
    this.post<api.DriveStatus>(drive(name, '/close'), { wait }, following);
  pause = (name: string) => this.post<api.DriveStatus>(drive(name, '/pause'));
  resume = (name: string) => this.post<api.DriveStatus>(drive(name, '/resume'));
  uploadNow = (name: string) => this.post(drive(name, '/upload-now'));
  stopPrefetch = (name: string) => this.post(drive(name, '/prefetch/stop'));
  stopCollecting = (name: string) => this.post(drive(name, '/gc/stop'));
  remove = (name: string, remove: { delete_data?: boolean; discard_unsent?: boolean }) =>
    this.post(drive(name, '/remove'), remove);

  map = (name: string) => this.get<api.ChunkMap>(drive(name, '/map'));
  queue = (name: string) => this.get<api.Queued[]>(drive(name, '/queue'));
  check = (name: string, following: Following) => this.post<api.Checked>(drive(name, '/check'), undefined, following);
  evict = (name: string) => this.post<api.Evicted>('/v1/evict', { drive: name });
  recoveryKey = (name: string) => this.post<api.RecoveryKey>(drive(name, '/recovery-key'));
  resize = (name: string, size_bytes: number) => this.post(drive(name, '/resize'), { size_bytes });
  passphrase = (name: string, passphrase: string) =>
    this.post(drive(name, '/passphrase'), { new_passphrase: passphrase });

  snapshots = (name: string) => this.get<api.Snapshot[]>(drive(name, '/snapshots'));
  snapshot = (name: string, label: string) => this.post<api.Snapshot>(drive(name, '/snapshots'), { label });
  dropSnapshot = (name: string, label: string) => this.delete(drive(name, `/snapshots/${encodeURIComponent(label)}`));
  clone = (of: string, name: string, snapshot: string | null) =>
    this.post<api.Created>(drive(of, '/clone'), { name, snapshot });

  current = (name: string) => this.get<api.Version>(drive(name, '/current'));
  forks = (name: string) => this.get<api.Fork[]>(drive(name, '/forks'));
  openFork = (name: string, of: string) => this.post<api.Opened>(fork(name, of, '/open'), {});
  keepFork = (name: string, of: string, as: string) => this.post<api.Created>(fork(name, of, '/keep'), { name: as });
  compareFork = (name: string, of: string) => this.post<api.Compared>(fork(name, of, '/compare'), {});
  discardFork = (name: string, of: string) => this.delete(fork(name, of));

  folderDirectory = (name: string, path: string) =>
    this.get<api.DirectoryEntry[]>(folder(name, `/directory?path=${encodeURIComponent(path)}`));
  directory = (name: string, path: string) =>
    this.get<api.DirectoryEntry[]>(drive(name, `/directory?path=${encodeURIComponent(path)}`));
  pins = (name: string) => this.get<api.Pin[]>(drive(name, '/pins'));
  pin = (pin: { paths?: string[]; drive?: string; dry_run?: boolean }, following?: Following) =>
    this.post<api.Pin[]>('/v1/pins', pin, following);
  unpin = (what: { paths?: string[]; drive?: string }) => this.post<api.Pin[]>('/v1/pins/remove', what);

  folders = () => this.get<api.FolderStatus[]>('/v1/folders');
  openFolder = (open: api.OpenFolder, following?: Following) =>
    this.post<api.FolderOpened>('/v1/folders', open, following);
  closeFolder = (name: string) => this.post<api.FolderClosed>(folder(name, '/close'), { wait: false });
  pauseFolder = (name: string) => this.post<api.FolderStatus>(folder(name, '/pause'));
  resumeFolder = (name: string) => this.post<api.FolderStatus>(folder(name, '/resume'));
  syncFolder = (name: string) => this.post<api.FolderStatus>(folder(name, '/sync'));
  forgetFolder = (name: string, forget: api.ForgetFolder) => this.post(folder(name, '/forget'), forget);
  folderQueue = (name: string) => this.get<api.FolderQueue>(folder(name, '/queue'));
  conflicts = (name: string) => this.get<api.FolderConflict[]>(folder(name, '/conflicts'));
  keepVersion = (name: string, keep: api.KeepVersion) => this.post(folder(name, '/conflicts/keep'), keep);
  deletions = (name: string) => this.get<api.HeldDeletions>(folder(name, '/deletions'));
  acceptDeletions = (name: string) => this.post<api.DeletionsSettled>(folder(name, '/deletions/accept'));
  restoreDeletions = (name: string) => this.post<api.DeletionsSettled>(folder(name, '/deletions/restore'));

  logins = () => this.get<api.StoreLogin[]>('/v1/stores');
  logIn = (store: string, credentials: api.StoreCredentials) =>
    this.post<api.StoreLogin>('/v1/stores/login', { store, credentials });
  logOut = (store: string) => this.post<api.StoreLogin>('/v1/stores/logout', { store });
  testStore = (store: string, credentials: api.StoreCredentials | undefined, following?: Following) =>
    this.post<api.StoreTested>('/v1/stores/test', { store, credentials }, following);

  findDrives = (store: string, credentials: api.StoreCredentials | undefined, secrets: api.Secrets) =>
    this.post<api.StoreDrive[]>('/v1/stores/drives', { store, credentials, secrets });

  directories = (path: string) => this.get<api.Directories>(`/v1/directories?path=${encodeURIComponent(path)}`);
  createDirectory = (parent: string, name: string) => this.post<api.Directories>('/v1/directories', { parent, name });

  activity = ({
    limit,
    before,
    drive,
    folder,
    kind,
  }: {
    limit: number;
    before?: number;
    drive?: string | null;
    folder?: string | null;
    kind?: string;
  }) => {
    const query = new URLSearchParams({ limit: String(limit) });
    if (before !== undefined) query.set('before', String(before));
    if (drive) query.set('drive', drive);
    if (folder) query.set('folder', folder);
    if (kind) query.set('kind', kind);
    return this.get<api.ActivityRow[]>(`/v1/activity?${query.toString()}`);
  };

  limits = () => this.get<api.Limits>('/v1/limits');
  setLimits = (limits: api.SetLimits) => this.post<api.Limits>('/v1/limits', limits);
  doctor = (following: Following) => this.post<api.Diagnosis>('/v1/doctor', undefined, following);
  repair = (following: Following) => this.post<api.Diagnosis>('/v1/doctor/repair', undefined, following);
  diagnostics = () => this.get<api.Diagnostics>('/v1/diagnostics');
}
