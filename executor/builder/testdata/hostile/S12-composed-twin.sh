# Two names that are the same in another normal form.
printf x > "calc/$(printf '\303\251')"
printf x > "calc/$(printf 'e\314\201')"
