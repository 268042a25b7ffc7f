/**
 * Shows the editor in headless Chromium and does what a person does with mouse and keyboard.
 *
 * Usage: node driver.mjs PLAYWRIGHT CHROMIUM URL. Reads one JSON command per line from stdin, {"do": name, ...}, and
 * answers each with one line, {"result": ...} or {"error": "..."}. Ends with its stdin.
 */
import { createRequire } from 'node:module';
import readline from 'node:readline';

const [playwright, executablePath, url] = process.argv.slice(2);
const { chromium } = createRequire(import.meta.url)(playwright);

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
const context = await browser.newContext({ viewport: { width: 1440, height: 860 } });
const page = await context.newPage();

const find = ({ selector, text }) => {
  const found = page.locator(selector);
  return (text === undefined ? found : found.filter({ hasText: text })).first();
};

/** Middle, in pixels, of the first place where the text stands in a line that contains `within`. */
async function placeOf(text, within) {
  return page.evaluate(([wanted, within]) => {
    for (const line of document.querySelectorAll('.monaco-editor .view-line')) {
      if (!line.textContent.replaceAll('\u00a0', ' ').includes(within)) continue;
      const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const at = node.data.indexOf(wanted);
        if (at < 0) continue;
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + wanted.length);
        const box = range.getBoundingClientRect();
        return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
      }
    }
    return null;
  }, [text, within]);
}

const actions = {
  wait: async ({ timeout = 20000, ...what }) => find(what).waitFor({ state: 'visible', timeout }),
  click: async ({ timeout = 20000, ...what }) => find(what).click({ timeout }),
  texts: async ({ selector }) => page.locator(selector).allInnerTexts(),
  count: async ({ selector }) => page.locator(selector).count(),
  press: async ({ key }) => page.keyboard.press(key),
  async point({ text, within }) {
    const place = await placeOf(text, within ?? text);
    if (place === null) throw new Error(`${text} is not on the screen`);
    // Two steps: the editor wants to see the mouse arrive.
    await page.mouse.move(place.x - 3, place.y);
    await page.mouse.move(place.x, place.y, { steps: 4 });
  },
  aside: async () => page.mouse.move(5, 855),
  screenshot: async ({ path }) => page.screenshot({ path }),
};

const answer = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

try {
  await page.goto(url);
  await page.locator('.monaco-workbench').waitFor({ timeout: 60000 });
  answer({ result: 'ready' });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    try {
      answer({ result: (await actions[command.do](command)) ?? null });
    } catch (error) {
      answer({ error: String(error?.message ?? error) });
    }
  }
} finally {
  await browser.close();
}
