"""The release as users have it: installed by helm, its pods run as processes."""
