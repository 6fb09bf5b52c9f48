# shellcheck shell=bash
# For callers: `state_of PID STATE` waits until /proc says that the process is
# in that state (T: stopped, S: asleep).
state_of() {
    local text
    until read -r text <"/proc/$1/stat" && text=${text##*) } && [[ ${text%% *} == "$2" ]]; do
        /bin/sleep 0.005
    done
}
