# Trailing dot and space, backslash, colon, control characters, a new line.
for name in 'dot.' 'space ' 'back\slash' 'co:lon' "$(printf 'bell\007')" "$(printf 'new\nline')" "$(printf 'bad\377utf')"; do
	printf x > "calc/$name"
done
