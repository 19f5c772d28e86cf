# A path deeper than any tool expects.
cd calc
i=0
while [ $i -lt 300 ]; do mkdir d && cd d || exit; i=$((i+1)); done
: > bottom
