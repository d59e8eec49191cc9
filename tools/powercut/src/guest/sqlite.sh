url=sqlite:/mnt/petal
between='?'
for setting in $settings; do
    url=$url$between$setting
    between='&'
done
flags=
start() { :; }
stop() { :; }
