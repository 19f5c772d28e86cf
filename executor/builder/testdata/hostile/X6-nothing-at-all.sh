# It ends well and has done nothing.
