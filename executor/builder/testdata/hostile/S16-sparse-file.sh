# A file of a terabyte without a byte on disk.
truncate -s 1T calc/huge
