# Everything a program can read of its surroundings.
env
cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'
cat "$OUTSIDE/canary" /root/.ssh/* /root/.gitconfig /root/.netrc /root/.config/* /etc/shadow /var/run/docker.sock /run/user/*/* /run/writ/*.json 2>/dev/null
ls -la / /root /home /run /var /tmp 2>/dev/null
git config --list --show-origin
printf 'protocol=https\nhost=github.com\n\n' | GIT_TERMINAL_PROMPT=0 git credential fill 2>&1
ls -la /proc/self/fd /proc/1/fd
mount; cat /proc/self/mountinfo /proc/self/cgroup
echo 'package calc // changed' > calc/add.go
