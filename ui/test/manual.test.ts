import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { page } from '../tools/manual';

describe('a page of the manual', () => {
  const html = (text: string) => page('a.md', `# A\n${text}`).html.trim();

  it('has its title and its text', () => {
    expect(page('space.md', '# Free <space>\n\nRun `x`:\n\n```sh run\nx\n```\n')).toEqual({
      name: 'space',
      title: 'Free <space>',
      html: '<p>Run <code>x</code>:</p>\n<pre><code class="language-sh">x\n</code></pre>\n',
    });
    expect(() => page('a.md', 'A\n')).toThrow('a.md does not begin with its title');
  });

  it('shows HTML as text', () => {
    expect(html('<img src=x onerror=alert(1)>')).toBe('<p>&lt;img src=x onerror=alert(1)&gt;</p>');
    expect(html('<b>x</b>')).toBe('<p>&lt;b&gt;x&lt;/b&gt;</p>');
  });

  it('leads to other pages and nowhere else', () => {
    expect(html('[B](b-c.md), [all](README.md)')).toBe('<p><a href="#/help/b-c">B</a>, <a href="#/help">all</a></p>');
    for (const elsewhere of ['https://example.org', '../STORES.md', 'javascript:alert(1)', '/x', '#/settings']) {
      expect(html(`[C](${elsewhere}) [B](b.md)`)).toMatch(/C.* <a href="#\/help\/b">B<\/a><\/p>$/);
      expect(html(`[C](${elsewhere})`)).not.toContain('href');
    }
    expect(html('![x](https://example.org/x.png)')).toBe('<p>!x</p>');
  });

  it('is made of every file', () => {
    const directory = new URL('../../docs/manual/', import.meta.url);
    for (const file of readdirSync(directory)) {
      const { html } = page(file, readFileSync(new URL(file, directory), 'utf8'));
      const wrong = /<(?!\/?(?:p|h2|ul|li|ol|pre|code|a|strong|em|table|thead|tbody|tr|th|td)\b)[^>]*>/.exec(html);
      expect(wrong, file).toBeNull();
    }
  });
});
