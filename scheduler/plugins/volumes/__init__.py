"""What the volume plugins share, and how VolumeBinding finds and binds volumes."""
