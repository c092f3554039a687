"""Proofs that a party's words are made of numbers within their bounds, before anything opens.

Each party P proves to each partner V that gets its words. Bits are committed by oblivious transfers: for a bit x, P
holds m = k + F x, V holds k and F, modulo a prime p. A relation between bits that is linear over the integers holds if
the same sum of all m is the sum of all k, plus F times what the sum must be.

step   who    formula                                   function                        bytes              proof
1      P      A = aG, the key of base transfers         proof.ProverKey                 32                 transfers
2      V      choices by D, 128 bits                    proof.VerifierChoices           128 x 2,400        transfers
3      P      ML-KEM's reply; matrices of all bits x    proof.Committing.matrices       16 a bit           transfers
4      V      d = H(K) - H(K ^ D) + F mod p             proof.KeysHeld.corrections      8 to 11 a bit      claim 1
4, 5   P      sealed words b, or the answer u           crypto/lattice                  as without         lattice_error
6      V      seed of T masks t                         proof.KeysHeld.challenge        32                 claim 3
7      P      z, h xor r; H(salt, answer)               proof.Committed.promise         1/8 a bit of these claim 4
8      V      D, digest of its seeds, F                 proof.Challenged.take           48 + 8 to 11       claim 4
9      P      salt, answer = H(sums of m), d checked    proof.Promised.answer           64                 claim 2

`coding` spells columns by bits, `field` computes modulo p, `commitments` has the transfers, `statements` what is public
of (S) and (M), `relations` their sums, `witness` what they are true of. All is argued in proofs/proven_ranges.md.
"""
