// Takes descriptions out of a JSON Schema and says where it comes from: node strip.mjs TYPE <full >stripped
import { readFileSync } from 'node:fs';

const schema = JSON.parse(readFileSync(0, 'utf8'));
const versions = JSON.parse(readFileSync('package.json', 'utf8')).devDependencies;

const strip = (value) => {
  if (Array.isArray(value)) return value.map(strip);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).filter(([key, v]) => !(key === 'description' && typeof v === 'string') && key !== 'markdownDescription').map(([key, v]) => [key, strip(v)]));
};
const from = Object.entries(versions).map(([name, version]) => `${name}@${version}`).join(', ');
const comment = `${process.argv[2]} of scripts/schemas/types.ts, made by scripts/schemas/generate from ${from}`;
process.stdout.write(JSON.stringify({ $comment: comment, ...strip(schema) }, null, 1) + '\n');
