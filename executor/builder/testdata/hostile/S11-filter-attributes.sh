# Attributes ask for filters and conversions.
printf '* filter=x text=auto eol=crlf ident working-tree-encoding=UTF-16 export-subst\n' > .gitattributes
printf 'package calc\r\n// $Id$\r\n' > calc/add.go
