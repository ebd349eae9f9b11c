//! What happens to two versions of a drive.

import { Refused } from '../backend/backend';
import type { Client } from '../backend/client';

/**
 * Opens a drive in its old place, and the drive that its fork has become. A drive that another computer has open is opened read-only. If
 * one of the two cannot be opened, the other still is.
 */
export async function openBoth(client: Client, drive: string, kept: string, place: string | null): Promise<void> {
  const at = place ? { at: place } : {};
  const opened = await Promise.allSettled([openAsItCan(client, drive, at), client.open(kept)]);
  for (const one of opened) if (one.status === 'rejected') throw one.reason;
}

async function openAsItCan(client: Client, drive: string, at: { at?: string }): Promise<void> {
  const { mountpoint } = await client.status(drive);
  if (mountpoint !== null) return;
  try {
    await client.open(drive, at);
  } catch (error) {
    if (!(error instanceof Refused) || error.failure.code !== 'held') throw error;
    await client.open(drive, { ...at, read_only: true });
  }
}
