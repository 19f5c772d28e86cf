# A change that is larger than its budget.
head -c 2000000 /dev/zero > calc/zero
