# A submodule is announced.
printf '[submodule "x"]\n\tpath = calc/x\n\turl = ext::sh -c touch%% canary\n' > .gitmodules
