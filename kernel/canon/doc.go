// Package canon is the one JSON form that Writ hashes, and the strict reader
// of JSON that comes from outside (seed 002, "Receipt Hashing").
//
// # The form
//
// A canonical document is one JSON value and nothing else:
//
//   - object keys are ASCII, unique, and sorted by their bytes;
//   - there is no white space between tokens;
//   - text is valid UTF-8 and is written as it is: no HTML escapes, no
//     normalisation (NFC and NFD stay different texts);
//   - escaped are only \" \\ \b \f \n \r \t, and the other characters below
//     U+0020 as \u00xx with lower-case digits;
//   - a number is an integer within ±(2^53−1), without fraction, exponent,
//     leading zero or −0. A larger one travels as a decimal string, a ratio as
//     parts per million: there are no floats;
//   - true, false, null.
//
// Real bytes:
//
//	{"kind":"example","n":-7,"text":"é <b>\n"}
//
// Over values that both know, the bytes equal Python's
// json.dumps(v, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
// and RFC 8785.
//
// # Hashes
//
// A hash is written "sha256:" and 64 lower-case hexadecimal digits. [Hash] is
// SHA-256 of the canonical bytes of an object, and nothing more: the domain
// tag is the object's own member "kind", so that a receipt can't be read as a
// snapshot, and whoever has the bytes can check with sha256sum. Names and
// quotes delimit every field, so no two field splits give the same bytes.
// [Sum] hashes bytes from outside bare: a contract, a stream, a blob.
//
// # Reading
//
// [Unmarshal] is for JSON that somebody else wrote. It takes exactly one
// document within [Limits], compares names case by case, and refuses unknown,
// duplicate and missing members, wrong types, null where there is no pointer,
// and all that the form above excludes except white space, order of keys and
// longer escapes. [UnmarshalCanonical] refuses these too, and is for records
// of our own. Every failure is an [*Error] that says why and where.
//
// Noncharacters such as U+FFFE are ordinary text here, as in RFC 8785, though
// RFC 7493 would refuse them: what people wrote must be recordable.
//
// The package is pure: standard library, no I/O, and nothing that a call leaves
// behind changes what another one answers.
package canon
