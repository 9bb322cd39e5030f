// Package tokens says how many tokens the items of a conversation cost: by the seeds' rule of thumb, by a heuristic that knows scripts, or exactly where a model's vocabulary is published; it asks no network and keeps no state but a Tally's.
//
// # Guarantees
//
//   - A Tally that has followed a log says what a full recount says, at a cost that does not grow with the history.
//   - Nothing is downloaded: the vocabularies o200k_base and cl100k_base (OpenAI, MIT licence) are part of the program, about
//     7 MB of it, and are only linked into programs that call Exact or ForModel.
package tokens
