#!/usr/bin/env python3
"""Writes golden.jsonl: the seed's formula (seed 002, "Receipt Hashing"),
run by Python, over values that Python and Writ both know.

    python3 golden.py > golden.jsonl
"""
import hashlib
import json

VECTORS = {
    "empty object": ' { } ',
    "empty array": '[ ]',
    "empty text": '""',
    "null": 'null',
    "booleans": '[true, false]',
    "zero": '0',
    "integers at the limits": '[9007199254740991, -9007199254740991, -1]',
    "key order": '{"b":1,"a":2,"B":3,"":4,"aa":5,"a b":6,"~":7}',
    "white space": '\t{\r\n "a" : [ 1 , 2 ] }\n',
    "escaped keys": '{"\\u0062":1,"\\u0061":2,"q\\"":3,"s\\\\":4,"t\\t":5}',
    "named escapes": r'"\" \\ \/ \b \f \n \r \t"',
    "controls": r'"\u0000 \u0001 \u001F \u000a \u007f"',
    "html": r'"<a href=\"x\">&amp;</a> \u003c\u003e\u0026"',
    "line separators": r'"\u2028 \u2029"',
    "latin": r'"\u00e9 é"',
    "NFC": '"é"',
    "NFD": '"e\u0301"',
    "beyond the basic plane": r'"\ud83d\ude00 😀 𝄞"',
    "replacement character": r'"\ufffd"',
    "noncharacters": r'"\ufffe \uffff"',
    "nested": '{"z":[{"y":{"x":[[],{},[null]]}}],"a":{"c":"2","b":"1"}}',
    "snapshot": '{"kind":"snapshot","world_id":"example.org/o/n","round_id":7,'
                '"members":[{"id":"default","tokens":-3}],"physics_constraints":{"max":65536}}',
    "receipt": '{"kind":"receipt","round_id":7,"seed":42,"accepted_action_ids":["a1","a2"],'
               '"judge_results":[],"timestamp":1700000000000,"note":"ünï 𝄞 <ok>\\n"}',
}

for name, text in VECTORS.items():
    out = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(out.encode("utf-8")).hexdigest()
    print(json.dumps({"name": name, "in": text, "out": out, "sha256": digest}))
