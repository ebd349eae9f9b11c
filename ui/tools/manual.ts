//! Puts the manual into the pages when they are built: the Markdown files of `docs/manual` become HTML, so that Help works without a
//! network, and nothing in the browser reads Markdown. HTML in these files is shown as text. Links lead to other pages of the manual;
//! of a link to anywhere else only its text stays, as the pages open nothing from elsewhere.

import { readFileSync, readdirSync } from 'node:fs';
import MarkdownIt from 'markdown-it';
import type { Plugin } from 'vite';

/** A page of the manual: its name in the address, its title, and the rest as HTML. */
export interface ManualPage {
  name: string;
  title: string;
  html: string;
}

const markdown = new MarkdownIt({ html: false }).disable('image');

/** The address of a page in the pages, if a link leads to one. */
function place(link: string): string | undefined {
  const name = /^([\w-]+)\.md$/.exec(link)?.[1];
  if (name === undefined) return undefined;
  return name === 'README' ? '#/help' : `#/help/${name}`;
}

export function page(file: string, text: string): ManualPage {
  const title = /^# (.+)\n/.exec(text);
  if (!title?.[1]) throw new Error(`${file} does not begin with its title`);
  const tokens = markdown.parse(text.slice(title[0].length), {});
  for (const { children } of tokens) {
    const isOpen: boolean[] = [];
    for (const token of children ?? []) {
      if (token.type === 'link_open') {
        const to = place(String(token.attrGet('href')));
        isOpen.push(to !== undefined);
        if (to === undefined) token.hidden = true;
        else token.attrs = [['href', to]];
      } else if (token.type === 'link_close') {
        token.hidden = !isOpen.pop();
      }
    }
  }
  return {
    name: file.replace(/\.md$/, ''),
    title: title[1],
    html: markdown.renderer.render(tokens, markdown.options, {}),
  };
}

/** `import pages from 'virtual:manual'`: all of them. */
export function manual(directory: string): Plugin {
  // The chunk gets its name from this.
  const id = `${directory}manual`;
  return {
    name: 'holdall-manual',
    resolveId: (source) => (source === 'virtual:manual' ? id : null),
    load(loaded) {
      if (loaded !== id) return null;
      const files = readdirSync(directory).filter((file) => file.endsWith('.md'));
      for (const file of files) this.addWatchFile(`${directory}${file}`);
      const pages = files.sort().map((file) => page(file, readFileSync(`${directory}${file}`, 'utf8')));
      return `export default ${JSON.stringify(pages)};`;
    },
  };
}
