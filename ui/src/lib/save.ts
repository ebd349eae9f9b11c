//! Saves a text as the person's own file. A browser shows where; if the app saves it, this returns the file.

import { backend } from '../app';

export async function saveText(name: string, text: string): Promise<string | null> {
  if (backend.saveText) return backend.saveText(name, text);
  const url = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
  return null;
}
