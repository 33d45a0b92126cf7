"""What paints faces, rooms, a painting and outlines."""
