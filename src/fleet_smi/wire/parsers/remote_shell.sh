# What the hub's `ssh` source has `sh` do on a node: it reads, and leaves nothing behind.
#
# In front of it stand `mark`, a word that nobody on the node can guess, `patience`, how many
# seconds a program may take, and `root`, where the file system starts. Each part of the answer
# begins with a line of its own: the mark, the part's name, and the seconds since boot.

export LC_ALL=C
PATH=$PATH:$HOME/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/nvidia/bin:/usr/lib/wsl/lib
exec 2>/dev/null

part() {
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

# The report of a fleet-smi that is installed here, if that can give one.
report() {
    command -v fleet-smi >/dev/null || return 1
    told=$(bounded fleet-smi agent --stdout --once)
    case $told in
    '{'*) part report && printf '%s\n' "$told" ;;
    *) return 1 ;;
    esac
}

host() {
    part taken_at && date +%s
    part hostname && uname -n
    part kernel && uname -r
    part machine_id && { cat "$root/etc/machine-id" || cat "$root/var/lib/dbus/machine-id"; }
    part boot_id && cat "$root/proc/sys/kernel/random/boot_id"
    part addresses && hostname -I
    part load && cat "$root/proc/loadavg"
    part memory && grep -E '^Mem(Total|Available):' "$root/proc/meminfo"
    part stat && grep -E '^(cpu[0-9]|btime )' "$root/proc/stat"
}

# The devices as the kernel lists them, which asks no driver and wakes no device.
devices() {
    part kernel_version && cat "$root/sys/module/nvidia/version"
    part devices
    for device in "$root"/proc/driver/nvidia/gpus/*; do
        [ -d "$device" ] || continue
        address=${device##*/}
        state=$(cat "$root/sys/bus/pci/devices/$address/power/runtime_status")
        printf 'device: %s\nstate: %s\n' "$address" "$state"
        grep -E '^(Model|GPU UUID):' "$device/information"
        if [ "$state" = suspended ]; then asleep=yes; else awake="$awake $address"; fi
    done
}

# An earlier nvidia-smi of ours that hangs in the kernel: the next one would hang beside it.
hangs() {
    for stat in $(grep -ls '^[0-9]* (nvidia-smi) D' "$root"/proc/[0-9]*/stat); do
        [ -O "$stat" ] && read -r line <"$stat" || continue
        # Behind the name in brackets the 20th word is when it started, in ticks since boot.
        set -- ${line##*) }
        [ $((${uptime%.*} - ${20:-0} / 100)) -gt $((patience + 1)) ] && return 0
    done
    return 1
}

ask() {
    part "nvidia_smi${2:+@$2}"
    said=$(bounded nvidia-smi -q -x "$@" 2>&1)
    exit_code=$?
    printf '%s\n' "$said"
    part exit_code && printf '%s\n' "$exit_code"
    everything="$everything$said"
}

# One device that sleeps or is lost must not decide about the others: each is asked by itself.
gpus() {
    command -v nvidia-smi >/dev/null || return
    asleep= awake= everything=
    devices
    hangs && part hangs && return
    [ -n "$asleep" ] || ask
    case $asleep$everything in
    yes* | *'Unable to determine the device handle'*)
        for address in ${awake:-0 1 2 3 4 5 6 7}; do ask -i "$address"; done
        ;;
    esac
    case $everything in
    *'<mig_device>'*) part list && bounded nvidia-smi -L ;;
    esac
    part asked
}

# A driver names the pids of the machine itself; inside a container they are somebody else.
pids_are_ours() {
    [ ! -e "$root/dev/nvidiactl" ] && return
    [ "$(readlink "$root/proc/self/ns/pid")" = 'pid:[4026531836]' ]
}

# One line a fact: the pid, the fact's name, and all of it.
person() {
    folder=$root/proc/$1
    [ -r "$folder/stat" ] && [ -r "$folder/status" ] || return
    for fact in cgroup stat; do
        said=
        while IFS= read -r line; do said="$said $line"; done <"$folder/$fact"
        printf '%s %s%s\n' "$1" "$fact" "$said"
    done
    while read -r key value _; do
        case $key in Uid: | VmRSS:) printf '%s %s %s\n' "$1" "$key" "$value" ;; esac
    done <"$folder/status"
    # Who asks a process that hangs in the kernel for its command line may hang as well.
    case ${said##*) } in D*) return ;; esac
    printf '%s command ' "$1"
    # Between the words of a command line there are zero bytes, which not every shell lets pass.
    dd bs=8192 count=1 <"$folder/cmdline" | tr '\n\000' ' \037'
    echo
}

people() {
    pids=$(printf '%s\n' "$everything" | sed -n 's/.*<pid>\([0-9]\{1,10\}\)<\/pid>.*/\1/p' |
        sort -nu | head -n 1000)
    part people
    [ -n "$pids" ] && pids_are_ours || return
    told=$(for pid in $pids; do person "$pid"; done)
    printf '%s\n' "$told"
    part users
    uids=$(printf '%s\n' "$told" | sed -n 's/^[0-9]* Uid: \([0-9]*\)$/\1/p' | sort -nu)
    if command -v getent >/dev/null; then
        bounded getent passwd $uids | cut -d : -f 1,3
    else
        cut -d : -f 1,3 "$root/etc/passwd"
    fi
}

everything=
report || {
    host
    gpus
    people
}
part end
