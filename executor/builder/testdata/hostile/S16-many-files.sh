# Thousands of new files.
i=0
while [ $i -lt 2000 ]; do : > calc/f$i; i=$((i+1)); done
