"""Known programs that are on a GPU without being anybody's job: displays, system services."""

_KERNEL_NAME_LENGTH = 15
"""The kernel cuts the name of a program to this length."""

_DISPLAY_PROGRAMS = (
    # Display servers and compositors.
    *(
        "X",
        "Xorg",
        "Xorg.bin",
        "Xwayland",
        "Xvnc",
        "weston",
        "sway",
        "Hyprland",
        "wayfire",
        "labwc",
    ),
    *("river", "niri", "gamescope", "mutter", "gnome-shell", "kwin", "kwin_x11", "kwin_wayland"),
    *("cosmic-comp", "cinnamon", "marco", "muffin", "compiz", "picom", "xfwm4", "budgie-wm"),
    # Desktops and what comes with them.
    *("plasmashell", "ksmserver", "ksplashqml", "krunner", "kded5", "kded6", "systemsettings"),
    *(
        "kscreenlocker_greet",
        "gnome-session-binary",
        "gnome-control-center",
        "gnome-terminal-server",
    ),
    *("gnome-text-editor", "gnome-software", "gnome-system-monitor", "gjs", "nautilus", "dolphin"),
    *("konsole", "kitty", "alacritty", "foot", "ghostty", "wezterm-gui", "nemo", "xfdesktop"),
    *("gdm", "gdm-x-session", "gdm-wayland-session", "lightdm", "sddm", "sddm-greeter", "evince"),
    *("xdg-desktop-portal", "xdg-desktop-portal-gnome", "xdg-desktop-portal-kde", "eog", "loupe"),
    # Browsers, and the desktop programs that are built from one.
    *("firefox", "firefox-bin", "firefox-esr", "Web Content", "RDD Process", "GPU Process"),
    *("chrome", "google-chrome", "chromium", "chromium-browser", "brave", "msedge", "opera"),
    *(
        "vivaldi-bin",
        "librewolf",
        "epiphany",
        "WebKitWebProcess",
        "QtWebEngineProcess",
        "thunderbird",
    ),
    *("electron", "code", "codium", "slack", "discord", "Discord", "teams", "zoom", "spotify"),
    *("signal-desktop", "obsidian", "soffice.bin", "steam", "steamwebhelper"),
)
_SERVICE_PROGRAMS = (
    *("nv-hostengine", "nvidia-persistenced", "nv-fabricmanager", "dcgm-exporter", "gpud"),
    *("nvidia-device-plugin", "nvidia_gpu_exporter", "fleet-smi"),
)


def _names(programs: tuple[str, ...]) -> frozenset[str]:
    return frozenset([*programs, *(name[:_KERNEL_NAME_LENGTH] for name in programs)])


DISPLAY_PROGRAMS = _names(_DISPLAY_PROGRAMS)
"""Programs that draw a desktop, as they are and as the kernel cuts their names."""

SERVICE_PROGRAMS = _names(_SERVICE_PROGRAMS)
"""System services that open a GPU to watch it or to keep it initialised."""
