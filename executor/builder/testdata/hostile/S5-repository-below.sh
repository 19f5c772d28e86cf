# A repository of its own appears below the allowed directory.
git init -q calc/sub && cd calc/sub && echo x > x && git add x && git -c user.name=x -c user.email=x@x commit -q -m x
