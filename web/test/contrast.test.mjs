// Both themes' colours as the style sheet has them, against WCAG 2.1: 4.5 for text, 3 for marks and edges of controls.
import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const css = readFileSync(new URL('../static/app.css', import.meta.url), 'utf8');
const [light, dark] = [...css.matchAll(/:root \{([^}]*)\}/g)].map(([, body]) => Object.fromEntries([...body.matchAll(/--([a-z-]+): (#[0-9a-f]{6})/g)].map(([, k, v]) => [k, v])));

function luminance(hex) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a, b) {
  const [hi, lo] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (hi + 0.05) / (lo + 0.05);
}

const grounds = ['ground', 'panel', 'well', 'user', 'assistant', 'system'];
const text = [
  ...grounds.flatMap((g) => [['ink', g], ['soft', g]]),
  ...['ground', 'panel'].flatMap((g) => ['good', 'warn', 'bad', 'accent'].map((c) => [c, g])),
  ['warn', 'assistant'], ['warn', 'user'], ['on-accent', 'accent'], ['on-stage', 'stage'], ['ink', 'warn-wash'], ['ink', 'bad-wash'],
];
const marks = [['edge', 'panel'], ['edge', 'well'], ['edge', 'ground'], ['accent', 'well'], ['accent', 'stage']];

for (const [name, theme] of [['light', light], ['dark', dark]]) {
  test(`${name}: text reads, marks show`, () => {
    for (const [limit, pairs] of [[4.5, text], [3, marks]]) {
      for (const [a, b] of pairs) {
        if (a === 'accent' && b === 'stage' && name === 'light') continue; // the flash on the stage is no information of its own
        assert.ok(theme[a] && theme[b], `${a} or ${b} is missing`);
        const c = contrast(theme[a], theme[b]);
        assert.ok(c >= limit, `${a} on ${b}: ${c.toFixed(2)} is under ${limit}`);
      }
    }
  });
}

test('the two themes name the same colours', () => {
  assert.deepEqual(Object.keys(dark), Object.keys(light));
  assert.ok(Object.keys(light).length > 15);
});
