import { describe, expect, it } from 'vitest';
import { below, shown, validDirectory } from '../src/lib/directories';

describe('a directory', () => {
  it('is shown with what cannot be seen written out', () => {
    expect(shown('My disk <b>')).toBe('My disk <b>');
    expect(shown('a\u001b[2J\u202etxt\u2028')).toBe('a\\u{1b}[2J\\u{202e}txt\\u{2028}');
  });

  it('lies in another', () => {
    expect([below('/', 'a'), below('/a', 'b')]).toEqual(['/a', '/a/b']);
  });

  it('has a name of one part', () => {
    expect(['a', 'My disk', '.x', 'ä'.repeat(127)].every(validDirectory)).toBe(true);
    expect(['', '.', '..', 'a/b', 'a\nb', 'ä'.repeat(128)].some(validDirectory)).toBe(false);
  });
});
