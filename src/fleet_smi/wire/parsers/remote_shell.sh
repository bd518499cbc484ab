# The script that the hub's `ssh` source runs on a node: it only reads, and leaves nothing behind.
#
# Set in front of it are `mark`, a random word that no process can guess, `patience`, the timeout
# of each program in seconds, and `root`, where the file system starts. Each section of the output
# begins with a line of its own: the mark, the section's name, and the seconds since boot.
# It has to run in dash, bash, busybox and ksh: POSIX only, no temporary files.

export LC_ALL=C
PATH=$PATH:$HOME/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/nvidia/bin:/usr/lib/wsl/lib
PATH=$PATH:/opt/rocm/bin
exec 2>/dev/null

section() {
    read -r uptime _ <"$root/proc/uptime"
    printf '\n%s %s %s\n' "$mark" "$1" "$uptime"
}

bounded() {
    if command -v timeout >/dev/null; then
        timeout -s KILL "$patience" "$@"
    else
        "$@"
    fi
}

# The report of a fleet-smi that is installed here, if it can give one.
report() {
    command -v fleet-smi >/dev/null || return 1
    output=$(bounded fleet-smi agent --stdout --once)
    case $output in
    '{'*) section report && printf '%s\n' "$output" ;;
    *) return 1 ;;
    esac
}

host() {
    section taken_at && date +%s
    section hostname && uname -n
    section kernel && uname -r
    section machine_id && { cat "$root/etc/machine-id" || cat "$root/var/lib/dbus/machine-id"; }
    section boot_id && cat "$root/proc/sys/kernel/random/boot_id"
    section addresses && hostname -I
    section load && cat "$root/proc/loadavg"
    section memory && grep -E '^Mem(Total|Available):' "$root/proc/meminfo"
    section stat && grep -E '^(cpu[0-9]|btime )' "$root/proc/stat"
}

# NVIDIA's devices as the kernel lists them, which calls no driver and wakes no device.
nvidia_devices() {
    section kernel_version && cat "$root/sys/module/nvidia/version"
    section devices
    for device in "$root"/proc/driver/nvidia/gpus/*; do
        [ -d "$device" ] || continue
        address=${device##*/}
        state=$(cat "$root/sys/bus/pci/devices/$address/power/runtime_status")
        printf 'device: %s\nstate: %s\n' "$address" "$state"
        grep -E '^(Model|GPU UUID):' "$device/information"
        if [ "$state" = suspended ]; then asleep=yes; else awake="$awake $address"; fi
    done
}

# Is an earlier program of ours stuck in the driver? The next one would get stuck beside it.
# $1 is what its line in /proc/PID/stat looks like, $2 a word of its command line, if needed.
stuck() {
    word=$2
    for stat in $(grep -ls "$1" "$root"/proc/[0-9]*/stat); do
        [ -O "$stat" ] && read -r line <"$stat" || continue
        if [ -n "$word" ]; then
            tr '\000' ' ' <"${stat%stat}cmdline" | grep -q " [^ ]*$word " || continue
        fi
        # After the name in brackets, the 20th word is the start time in ticks since boot.
        set -- ${line##*) }
        [ $((${uptime%.*} - ${20:-0} / 100)) -gt $((patience + 1)) ] && return 0
    done
    return 1
}

query_nvidia() {
    section "nvidia_smi${2:+@$2}"
    output=$(bounded nvidia-smi -q -x "$@" 2>&1)
    exit_code=$?
    printf '%s\n' "$output"
    section exit_code && printf '%s\n' "$exit_code"
    nvidia_output="$nvidia_output$output"
}

# One device that sleeps or is lost must not decide about the others: each is queried by itself.
nvidia() {
    command -v nvidia-smi >/dev/null || return
    asleep= awake=
    nvidia_devices
    stuck '^[0-9]* (nvidia-smi) D' && section hangs && return
    [ -n "$asleep" ] || query_nvidia
    case $asleep$nvidia_output in
    yes* | *'Unable to determine the device handle'*)
        for address in ${awake:-0 1 2 3 4 5 6 7}; do query_nvidia -i "$address"; done
        ;;
    esac
    case $nvidia_output in
    *'<mig_device>'*) section list && bounded nvidia-smi -L ;;
    esac
}

# The cards of one vendor as the kernel lists them. These files wake no card.
# $1 is the vendor's PCI id; sets `asleep` if one of them sleeps.
vendor_cards() {
    asleep=
    section "cards@$1"
    for card in "$root"/sys/class/drm/card*; do
        device=$card/device vendor=
        read -r vendor <"$device/vendor"
        [ "$vendor" = "$1" ] || continue
        address=$(readlink "$device")
        state=$(cat "$device/power/runtime_status")
        printf 'device: %s\nstate: %s\n' "${address##*/}" "$state"
        printf 'id: %s\n' "$(cat "$device/device")"
        printf 'unique_id: %s\n' "$(cat "$device/unique_id")"
        printf 'name: %s\n' "$(cat "$device/product_name")"
        [ "$state" = suspended ] && asleep=yes
    done
}

# Run one command of a vendor's program: $1 names the section. All commands together get no more
# time than one program does, so that the answer is complete before the hub gives up.
query_vendor() {
    section "$1"
    shift
    left=$((deadline - ${uptime%.*}))
    # 124 is what `timeout` ends with when the time is up.
    output= exit_code=124
    if [ "$left" -gt 0 ]; then
        output=$(patience=$left && bounded "$@" 2>&1)
        exit_code=$?
    fi
    printf '%s\n' "$output"
    section exit_code && printf '%s\n' "$exit_code"
    vendor_output="$vendor_output
$output"
}

# May the vendor's program $1 run for cards of PCI vendor $2? Most of these programs are Python
# scripts, so that a stuck one is known by the `timeout` that waits for it.
can_query() {
    vendor_cards "$2"
    [ -z "$asleep" ] || return 1
    section "$3"
    stuck '^[0-9]* (timeout) ' "$1" && section "hangs@$3" && return 1
    deadline=$((${uptime%.*} + patience))
}

amd() {
    if command -v amd-smi >/dev/null; then
        can_query amd-smi 0x1002 amd_smi || return
        query_vendor amd_smi@static amd-smi static --json
        query_vendor amd_smi@metric amd-smi metric --json
        query_vendor amd_smi@process amd-smi process --json
    elif command -v rocm-smi >/dev/null; then
        can_query rocm-smi 0x1002 rocm_smi || return
        query_vendor rocm_smi@all rocm-smi --showid --showproductname --showuniqueid --showbus \
            --showuse --showmemuse --showmeminfo vram gtt --showtemp --showpower --showmaxpower \
            --showfan --showclocks --showperflevel --showpids --json
    fi
}

intel() {
    command -v xpu-smi >/dev/null || return
    can_query xpu-smi 0x8086 xpu_smi || return
    query_vendor xpu_smi@discovery xpu-smi discovery --dump 1,2,6,11,13,14,16
    query_vendor xpu_smi@dump xpu-smi dump -d -1 --metrics 0,1,2,3,4,17,18 -n 1
    query_vendor xpu_smi@ps xpu-smi ps
}

# Drivers report pids of the machine itself; inside a container those are other processes.
pids_are_ours() {
    [ ! -e "$root/dev/nvidiactl" ] && [ ! -e "$root/dev/kfd" ] && return
    [ "$(readlink "$root/proc/self/ns/pid")" = 'pid:[4026531836]' ]
}

# The pids in what nvidia-smi (XML), amd-smi and rocm-smi (JSON) and xpu-smi (a table) printed.
gpu_pids() {
    printf '%s\n' "$nvidia_output" | sed -n 's/.*<pid>\([0-9]\{1,10\}\)<\/pid>.*/\1/p'
    printf '%s\n' "$vendor_output" | tr '{,' '\n\n' | sed -n \
        -e 's/.*"pid": *\([0-9]\{1,10\}\).*/\1/p' \
        -e 's/.*"PID *\([0-9]\{1,10\}\)".*/\1/p' \
        -e 's/^ *\([0-9]\{1,10\}\)  *[^ ].*[0-9]$/\1/p'
}

# One line per fact: the pid, the fact's name, and its text.
process() {
    folder=$root/proc/$1
    [ -r "$folder/stat" ] && [ -r "$folder/status" ] || return
    for fact in cgroup stat; do
        text=
        while IFS= read -r line; do text="$text $line"; done <"$folder/$fact"
        printf '%s %s%s\n' "$1" "$fact" "$text"
    done
    while read -r key value _; do
        case $key in Uid: | VmRSS:) printf '%s %s %s\n' "$1" "$key" "$value" ;; esac
    done <"$folder/status"
    # Reading the command line of a process that hangs in the kernel may hang as well.
    case ${text##*) } in D*) return ;; esac
    printf '%s command ' "$1"
    # Arguments are separated by zero bytes, which not every shell lets pass.
    dd bs=8192 count=1 <"$folder/cmdline" | tr '\n\000' ' \037'
    echo
}

processes() {
    pids=$(gpu_pids | sort -nu | head -n 1000)
    section processes
    [ -n "$pids" ] && pids_are_ours || return
    facts=$(for pid in $pids; do process "$pid"; done)
    printf '%s\n' "$facts"
    section users
    uids=$(printf '%s\n' "$facts" | sed -n 's/^[0-9]* Uid: \([0-9]*\)$/\1/p' | sort -nu)
    if command -v getent >/dev/null; then
        bounded getent passwd $uids | cut -d : -f 1,3
    else
        cut -d : -f 1,3 "$root/etc/passwd"
    fi
}

nvidia_output= vendor_output=
report || {
    host
    nvidia
    amd
    intel
    section queried
    processes
}
section end
