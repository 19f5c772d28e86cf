# It says something, then nothing for longer than it may.
echo begun
sleep 1000
