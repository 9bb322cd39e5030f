// Takes descriptions out of a JSON Schema and says where it comes from: node strip.mjs TYPE [nulls] [lax] <full >stripped
// nulls: noise_reduction and transcription may be null, which turns them off; the types forgot it.
// lax: fields that the types do not know are allowed; real servers send some (session.created: id, object, expires_at).
import { readFileSync } from 'node:fs';

const schema = JSON.parse(readFileSync(0, 'utf8'));
const versions = JSON.parse(readFileSync('package.json', 'utf8')).devDependencies;

const nulls = process.argv.includes('nulls');
const lax = process.argv.includes('lax');
const drop = (key, v) => (key === 'description' && typeof v === 'string') || key === 'markdownDescription' || (lax && key === 'additionalProperties' && v === false);
const nullable = (key, v) => nulls && (key === 'noise_reduction' || key === 'transcription') && typeof v === 'object' && ('$ref' in v || v.type === 'object');

const strip = (value) => {
  if (Array.isArray(value)) return value.map(strip);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key, v]) => !drop(key, v))
      .map(([key, v]) => [key, nullable(key, v) ? { anyOf: [strip(v), { type: 'null' }] } : strip(v)]),
  );
};
const from = Object.entries(versions).map(([name, version]) => `${name}@${version}`).join(', ');
const comment = `${process.argv[2]} of scripts/schemas/types.ts, made by scripts/schemas/generate from ${from}${lax ? '; lax: fields it does not know are allowed' : ''}`;
process.stdout.write(JSON.stringify({ $comment: comment, ...strip(schema) }, null, 1) + '\n');
