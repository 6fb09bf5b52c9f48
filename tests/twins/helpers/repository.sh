# shellcheck shell=bash
# Makes the repository that rows copy: two branches, a tag, text and binary.
set -eu
for who in AUTHOR COMMITTER; do
    export "GIT_${who}_NAME=Some One" "GIT_${who}_EMAIL=some.one@example.org"
    export "GIT_${who}_DATE=2024-05-06T07:08:09 +0200"
done
git init -q -b main "$1"
cd "$1"
printf 'first\nsecond\nthird\n' >file.txt
head -c 100000 "$(dirname "$1")/large" >binary
mkdir sub
echo deep >sub/deep.txt
git add .
git commit -q -m first
git tag -a -m 'a tag' v1
git checkout -q -b topic
printf 'first\nsecond, of topic\nthird\n' >file.txt
git commit -q -a -m 'on topic'
git checkout -q main
printf 'first\nsecond, of main\nthird\n' >file.txt
echo more >sub/more.txt
git add .
git commit -q -m 'on main'
