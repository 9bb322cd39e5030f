// Package auth turns bearer tokens (JWT, RFC 7519) into claims and claims into tokens; it reads no request, opens no file, and does not know which claim opens which door.
//
// # Guarantees
//
//   - A token is taken only with the algorithm of the key that verifies it. The key fixes it, the token's header does not choose: a public
//     key is never taken as a secret, and "none" does not exist (RFC 8725 §3.1).
//   - G12: tokens, key sets and lifetimes are bounded; whoever sends tokens can make a key set be fetched once in 30 s, no more.
//   - No error and no printed value holds a key or a token.
package auth
